"""zig compiles C and C++ for an older glibc than this machine's, where no torch is linked."""
