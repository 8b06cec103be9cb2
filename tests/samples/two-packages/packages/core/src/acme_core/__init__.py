NAME = "acme"
