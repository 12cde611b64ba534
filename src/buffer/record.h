/*
 * record.h
 *	  Accesses to pages, written down for bench/replay.  In builds with -DMTP_RECORD alone.
 *
 * A process that finds a directory "record" in the data directory when it looks for a page first writes its accesses there, to a file by its number: records of 16 bytes, nanoseconds of the
 * machine's clock, then a page as bench/replay has it: kind, file, block (or pair).
 */
#ifndef MTP_RECORD_H
#define MTP_RECORD_H

#include "buffer/frame.h"

#ifdef MTP_RECORD
extern void mtp_record(MtpPageTag tag, int kind);
#else
#define mtp_record(tag, kind) ((void) 0)
#endif

#endif							/* MTP_RECORD_H */
