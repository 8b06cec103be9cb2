// In place of torch's: the state that a kernel gets of a generator of random numbers. The state is torch's own, so that
// its layout is in the text: torch 2.10 made it larger.
#pragma once

#include <ATen/cuda/PhiloxCudaState.h>

#include <cstdint>
#include <tuple>

static_assert(sizeof(at::PhiloxCudaState) == 32, "the layout since torch 2.10");
