#include "mtpower.h"

void
mtp_blink_init(void)
{
}
