#include "mtpower.h"

void
mtp_table_init(void)
{
}
