/*
 * media.h
 *	  The media: mapped memory of a file, which may be persistent.  All of libpmem that is used.
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
	bool		is_pmem;		/* persistent memory; else nothing outlives the machine */
} MtpMedia;

/* True if mtpower was built with libpmem */
extern bool mtp_media_built(void);

/*
 * Maps a file, makes it that large, and allocates all its room on the device.  False if that
 * fails: *why says why, in words that stay valid until the next call.
 */
extern bool mtp_media_map(MtpMedia *m, const char *path, Size size, const char **why);
extern void mtp_media_unmap(MtpMedia *m);

/*
 * Write to the media, past the caches where the processor can.  On x86-64 only a drain orders such
 * stores: pg_write_barrier does not, since it is one for the compiler alone there, and nor do
 * other stores.
 */
extern void mtp_media_write(void *to, const void *from, Size size);
extern void mtp_media_clear(void *at, Size size);

/*
 * Orders writes: all that this process has written is visible to others before anything that it
 * stores from now on; and it is durable, if the file is persistent memory.
 */
extern void mtp_media_drain(void);

#endif							/* MTP_MEDIA_H */
