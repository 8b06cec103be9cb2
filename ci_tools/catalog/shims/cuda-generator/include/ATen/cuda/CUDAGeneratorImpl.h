// In place of torch's: the state that a kernel gets of a generator of random numbers. The state is torch's own, so that
// its layout is in the text: torch 2.10 made it larger. What is small of the standard library is here, as with torch's.
#pragma once

#include <ATen/cuda/PhiloxCudaState.h>

#include <cassert>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

static_assert(sizeof(at::PhiloxCudaState) == 32, "the layout since torch 2.10");
