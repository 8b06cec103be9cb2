"""Stands for actions/create-github-app-token: hands on the token of the test's API server."""

from __future__ import annotations

from standin import INPUTS, SETTINGS, hand_on, refuse, required


def main() -> None:
    required("private-key")
    if not INPUTS["client-id"] and not INPUTS["app-id"]:
        refuse("The 'client-id' input must be set to a non-empty string.")
    print(f"::add-mask::{SETTINGS['token']}")
    hand_on(token=SETTINGS["token"], installation_id="1", app_slug="stand-in")


main()
