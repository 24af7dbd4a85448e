/* While the file named by TALLY_FAIL_SYNC exists, every sync fails with EIO. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(void) {
    const char *flag = getenv("TALLY_FAIL_SYNC");
    if (flag && access(flag, F_OK) == 0) {
        errno = EIO;
        return 1;
    }
    return 0;
}

int fsync(int descriptor) {
    (void)descriptor;
    return fails() ? -1 : 0;
}

int fdatasync(int descriptor) {
    (void)descriptor;
    return fails() ? -1 : 0;
}
