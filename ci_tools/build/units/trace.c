/* Records which files a preprocessor opens, and which it looks for in vain: what its text depends on.

   It is loaded before the C library (ld.so(8), LD_PRELOAD). Each record is one letter, a path and a NUL byte, and is
   written at once, as the processes of one call share the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void record(int failed, const char *path) {
  static int file = -1;
  int error = errno;
  size_t length = strlen(path) + 1;
  char line[4200];
  if (file < 0) {
    const char *name = getenv("FATWHEEL_UNITS_TRACE");
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    if (!name || (file = real(name, O_WRONLY | O_APPEND | O_CLOEXEC)) < 0) return;
  }
  line[0] = failed ? 'a' : 'r';
  if (length >= sizeof line) line[0] = '!', length = 1, path = "";
  memcpy(line + 1, path, length);
  if (write(file, line, length + 1) < 0) _exit(121);
  errno = error;
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)

#define OPEN(name)                                                              \
  int name(const char *path, int flags, ...) {                                  \
    REAL(int, name, const char *, int, ...);                                    \
    va_list rest;                                                               \
    va_start(rest, flags);                                                      \
    int found = real(path, flags, va_arg(rest, mode_t));                        \
    va_end(rest);                                                               \
    if ((flags & O_ACCMODE) == O_RDONLY) record(found < 0, path);               \
    return found;                                                               \
  }
#define FOPEN(name)                                                             \
  FILE *name(const char *path, const char *mode) {                              \
    REAL(FILE *, name, const char *, const char *);                             \
    FILE *found = real(path, mode);                                             \
    if (mode[0] == 'r') record(!found, path);                                   \
    return found;                                                               \
  }
/* A folder that is looked at and is there is no record: what is in it is asked for by name. */
#define STAT(name, kind)                                                        \
  int name(const char *path, struct kind *status) {                             \
    REAL(int, name, const char *, struct kind *);                               \
    int failed = real(path, status);                                            \
    if (failed) record(1, path);                                                \
    return failed;                                                              \
  }
#define XSTAT(name, kind) /* of a glibc before 2.33 */                          \
  int name(int version, const char *path, struct kind *status) {                \
    REAL(int, name, int, const char *, struct kind *);                          \
    int failed = real(version, path, status);                                   \
    if (failed) record(1, path);                                                \
    return failed;                                                              \
  }

OPEN(open)
FOPEN(fopen)
STAT(stat, stat)
#ifdef __GLIBC__
OPEN(open64)
FOPEN(fopen64)
STAT(stat64, stat64)
XSTAT(__xstat, stat)
XSTAT(__xstat64, stat64)
#endif
int access(const char *path, int mode) {
  REAL(int, access, const char *, int);
  int failed = real(path, mode);
  if (failed) record(1, path);
  return failed;
}
