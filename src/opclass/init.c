#include "mtpower.h"

void
mtp_opclass_init(void)
{
}
