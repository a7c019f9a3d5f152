/* Preloaded into a server by the drills: makes flushes and page reads slow, as a slow device would, while
   the file named by DRILL_FLAG exists. DRILL_FSYNC_MS and DRILL_PREAD_MS: milliseconds added to each. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void delay(const char *name)
{
    const char *flag = getenv("DRILL_FLAG");
    const char *text = getenv(name);
    long ms = text ? atol(text) : 0;
    if (ms <= 0 || !flag || access(flag, F_OK) != 0)
        return;
    struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
    nanosleep(&t, 0);
}

int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    delay("DRILL_FSYNC_MS");
    return real(fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    delay("DRILL_FSYNC_MS");
    return real(fd);
}

/* Pages only: headers and logs are read in smaller pieces. */
#define PAGE 16384

ssize_t pread(int fd, void *to, size_t length, off_t at)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real)
        real = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    if (length >= PAGE)
        delay("DRILL_PREAD_MS");
    return real(fd, to, length, at);
}

ssize_t pread64(int fd, void *to, size_t length, off64_t at)
{
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real)
        real = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    if (length >= PAGE)
        delay("DRILL_PREAD_MS");
    return real(fd, to, length, at);
}
