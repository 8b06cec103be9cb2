from acme_speed._sum import total
