#include <nanobind/nanobind.h>

#include <cstdint>

namespace nb = nanobind;

// FNV-1a, 64 bits.
static std::uint64_t fnv(nb::bytes text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < text.size(); ++i) hash = (hash ^ static_cast<unsigned char>(text.c_str()[i])) * 0x100000001b3ULL;
  return hash;
}

NB_MODULE(_hash, m) { m.def("fnv", &fnv); }
