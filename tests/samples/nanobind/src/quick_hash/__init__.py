from quick_hash._hash import fnv
