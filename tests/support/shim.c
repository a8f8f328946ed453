/* Stands between a program and libc (LD_PRELOAD), for faults that cannot be caused on a shared
 * machine: another time of day, a disk that turns read-only during writes, as ext4 does when the disk
 * fails (errors=remount-ro), and a disk that does not finish a sync.
 *
 * CHAOS_SHIM names a file of 24 bytes, shared with the test: by how many seconds the wall clock is
 * off, the error that writes to files get (0: none), and whether syncs wait. SQLite writes by these
 * calls only; PostgreSQL syncs by them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile struct { int64_t off_by_seconds, write_error, syncs_wait; } *told;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
static int (*real_ftruncate64)(int, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate64 = dlsym(RTLD_NEXT, "ftruncate64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("CHAOS_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, 24, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) told = page;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = real_clock_gettime(clock, time);
    if (!failed && told && clock == CLOCK_REALTIME) time->tv_sec += told->off_by_seconds;
    return failed;
}

#define FAIL_IF_TOLD if (told && told->write_error) { errno = (int)told->write_error; return -1; }

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    FAIL_IF_TOLD
    return real_pwrite64(file, bytes, count, at);
}

int ftruncate64(int file, off64_t length) {
    FAIL_IF_TOLD
    return real_ftruncate64(file, length);
}

static void wait_if_told(void) {
    while (told && told->syncs_wait) usleep(10000);
}

int fsync(int file) {
    FAIL_IF_TOLD
    wait_if_told();
    return real_fsync(file);
}

int fdatasync(int file) {
    wait_if_told();
    return real_fdatasync(file);
}
