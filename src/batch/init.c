#include "mtpower.h"

void
mtp_batch_init(void)
{
}
