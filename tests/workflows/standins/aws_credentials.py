"""Stands for aws-actions/configure-aws-credentials: hands on the keys of the test's bucket server."""

from __future__ import annotations

from standin import INPUTS, SETTINGS, append, hand_on, refuse, required


def main() -> None:
    required("aws-region")
    if not INPUTS["role-to-assume"]:
        required("aws-access-key-id", "aws-secret-access-key")
    elif SETTINGS["aws"] is None:
        refuse("Could not load credentials from any providers: this run was given no bucket server")
    credentials = SETTINGS["aws"] or {
        "AWS_ACCESS_KEY_ID": INPUTS["aws-access-key-id"],
        "AWS_SECRET_ACCESS_KEY": INPUTS["aws-secret-access-key"],
    }
    append(
        "GITHUB_ENV", {**credentials, "AWS_REGION": INPUTS["aws-region"], "AWS_DEFAULT_REGION": INPUTS["aws-region"]}
    )
    hand_on(aws_account_id="123456789012")


main()
