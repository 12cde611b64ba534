#include "mtpower.h"

void
mtp_wal_init(void)
{
}
