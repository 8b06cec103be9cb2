// Keeps the library's symbols within glibc 2.28 and GCC 8 (manylinux_2_28) when a newer compiler builds it: the two
// definitions here are the only newer ones that torch's headers pull in, and libstdc++ itself stays shared because an
// exception that crosses libtorch must meet one copy of it.

#include <sstream>

#ifdef __linux__

// glibc 2.32 exports this hint to skip atomic operations; ours says that there may always be other threads.
extern "C" {
__attribute__((visibility("hidden"))) char __libc_single_threaded;
}

// GCC 9 began to export these classes' default constructors.
template class std::basic_stringstream<char>;
template class std::basic_ostringstream<char>;

#endif
