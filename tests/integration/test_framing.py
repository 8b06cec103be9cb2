"""The base of the tests' servers refuses what is not framed as the standard says, and fails the test of that client."""

from __future__ import annotations

import http.client
import re
import socket
from pathlib import Path

import pytest

from tests.servers.buckets import moto
from tests.servers.framing import Handler, Server
from tests.servers.threads import serve


class Echo(Handler):
    """Answers with the content that it was sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Send the content back."""
        content = self.body()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


HOST = "Host: h\r\n"
EMPTY = f"POST / HTTP/1.1\r\n{HOST}Content-Length: 0\r\n\r\n"
RIGHT = {
    "a-length": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nab",
    "chunks": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1;x=y\r\nb\r\n0\r\n\r\n",
    "before-another": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nab{EMPTY}",
}
WRONG = {
    "both": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 12\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "neither": f"POST / HTTP/1.1\r\n{HOST}\r\n",
    "two-lengths": f"POST / HTTP/1.1\r\n{HOST}Content-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "a-signed-length": f"POST / HTTP/1.1\r\n{HOST}Content-Length: +2\r\n\r\nab",
    "another-coding": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: gzip\r\n\r\nab",
    "no-host": "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
    "two-hosts": f"POST / HTTP/1.1\r\n{HOST}{HOST}Content-Length: 2\r\n\r\nab",
    "two-tokens": f"POST / HTTP/1.1\r\n{HOST}Authorization: a\r\nAuthorization: b\r\nContent-Length: 0\r\n\r\n",
    "a-blank-in-a-name": f"POST / HTTP/1.1\r\n{HOST}A b: c\r\nContent-Length: 2\r\n\r\nab",
    "a-blank-in-the-target": f"POST /a b HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nab",
    "a-letter-beyond-ascii": f"POST /\u00e9 HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nab",
    "another-expectation": f"POST / HTTP/1.1\r\n{HOST}Expect: tea\r\nContent-Length: 2\r\n\r\nab",
    "a-get-with-content": f"GET / HTTP/1.1\r\n{HOST}Content-Length: 2\r\n\r\nab",
    "a-chunk-that-is-longer": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "a-chunk-without-a-size": f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n-2\r\nab\r\n0\r\n\r\n",
}
BY_HEAD = ("both", "two-lengths", "no-host", "a-get-with-content")


def sent(port: int, request: str) -> int:
    """Return the status of the answer to a request; 0 if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        client.sendall(request.encode("latin-1"))
        client.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(client)
        try:
            answer.begin()
        except (http.client.BadStatusLine, ConnectionError):
            return 0
        return answer.status


@pytest.mark.parametrize("request_", RIGHT.values(), ids=RIGHT)
def test_a_right_request_is_answered(request_: str) -> None:
    with serve(Server(Echo)) as server:
        assert sent(server.server_port, request_) == 200


@pytest.mark.parametrize("request_", WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_refused_and_fails_its_test(request_: str) -> None:
    with pytest.raises(AssertionError), serve(Server(Echo)) as server:
        status = sent(server.server_port, request_)
    assert status in {0, 400}


def test_every_server_of_the_tests_stands_on_the_base_or_shares_its_rules() -> None:
    serves = re.compile(r"(?m)^(from|import) (http\.server|socketserver|aiohttp|flask)\b|create_server\(Connection")
    tests = Path(__file__).parents[1].rglob("*.py")
    assert {path.name for path in tests if serves.search(path.read_text("utf-8"))} == {"framing.py", "s3.py"}


@pytest.mark.slow
@pytest.mark.parametrize("request_", [WRONG[name] for name in BY_HEAD], ids=BY_HEAD)
def test_a_wrong_request_fails_the_test_of_a_bucket_as_well(request_: str) -> None:
    with pytest.raises(AssertionError, match="911"), moto() as bucket:
        status = sent(bucket.port, request_)
    assert status == 400
