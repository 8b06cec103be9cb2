"""github.com for a program that knows no other address: a proxy that answers in its place, over TLS."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.servers.framing import Handler, Server
from tests.servers.threads import serve

HOST = "github.com"


class Proxy(Server):
    """Answers what is asked of github.com about one repository from another server, about another repository."""

    def __init__(self, repository: str, there: str, certificate: Path) -> None:
        super().__init__(_Handler)
        self.repository, self.there = repository, there
        self.asked: list[str] = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)


class _Handler(Handler):
    server: Proxy

    def do_CONNECT(self) -> None:
        if self.path != f"{HOST}:443":
            self.send_error(403)
            return
        self.send_response(200)
        self.end_headers()
        plain = self.rfile, self.wfile
        with (
            self.server.context.wrap_socket(self.connection, server_side=True) as secure,
            secure.makefile("rb") as self.rfile,
            secure.makefile("wb") as self.wfile,
        ):
            self.handle_one_request()
        self.rfile, self.wfile = plain
        self.close_connection = True

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        _, own, path = self.path.partition(f"/{self.server.repository}/")
        try:
            with urlopen(f"{self.server.there}/{path if own else 'nothing'}") as answer:
                content = answer.read()
        except HTTPError as error:
            with error:
                self.send_error(error.code)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def github_com(repository: str, there: str, folder: Path) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """Yield the proxy, and the variables of a program that then takes it for github.com."""
    key, certificate = folder / "both.pem", folder / "certificate.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}"]
    words += ["-addext", f"subjectAltName=DNS:{HOST}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    key.write_bytes(key.read_bytes() + certificate.read_bytes())
    with serve(Proxy(repository, there, key)) as proxy:
        yield proxy, {"https_proxy": proxy.url, "SSL_CERT_FILE": str(certificate), "no_proxy": ""}
