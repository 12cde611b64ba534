/*
 * media.h
 *	  A file that is mapped, and may be persistent memory: all that mtpower uses of libpmem.
 *
 * Without libpmem (make WITH_PMEM=no) nothing can be mapped, so nothing else here is called.
 */
#ifndef MTP_MEDIA_H
#define MTP_MEDIA_H

#include "core/core.h"

typedef struct MtpMedia
{
	char	   *base;			/* NULL: nothing is mapped */
	Size		size;
	bool		is_pmem;		/* persistent memory; else nothing in it outlives the machine */
} MtpMedia;

/* Was mtpower built with libpmem? */
extern bool mtp_media_built(void);

/*
 * Maps a file, which is made as large as that, and gets all its room on the device.  False if that fails; *why then says why, in words that
 * stay valid until the next call.
 */
extern bool mtp_media_map(MtpMedia *m, const char *path, Size size, const char **why);
extern void mtp_media_unmap(MtpMedia *m);

/*
 * Writes to it, past the caches where the processor can.  On x86-64 such stores are ordered by nothing but a drain: not by pg_write_barrier, which
 * there is one for the compiler alone, and not with stores of other kinds.
 */
extern void mtp_media_write(void *to, const void *from, Size size);
extern void mtp_media_clear(void *at, Size size);

/* All this process has written is visible to others before what it stores from now on, and durable if the file is persistent memory. */
extern void mtp_media_drain(void);

#endif							/* MTP_MEDIA_H */
