/*
 * record.h
 *	  The hook of the benchmark's recorder (bench/recorder): builds with -DMTP_RECORD call it for
 *	  each page that they look for in the buffer, others have no code for it.
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
