/*
 * pending.c
 *	  Plain forms of what kill.c and build.c will do better; each of these files takes its
 *	  functions over.
 */
#include "blink/blink.h"

#include "access/tableam.h"
#include "miscadmin.h"
#include "access/xloginsert.h"
#include "storage/smgr.h"

bool
mtp_blink_reclaim(Relation rel, Relation heap, Buffer buf, Size need, bool unchanged)
{
	return false;
}
