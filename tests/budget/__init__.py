"""The size of the house: lines per room, per verb and in all, held by `make lint`."""
