"""The way out to the network: one client, one policy of what is tried again, one reader of parts of a file.

Beside it are only boto3 and PyGithub, which get their figures from `policy`, and the backend in a user's sdist, which
cannot import it. A test holds that nothing else imports a client or sleeps before another try.
"""
