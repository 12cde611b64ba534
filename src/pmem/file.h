/*
 * file.h
 *	  The pool file: its layout, and what is done with it.
 *
 *	  offset                    size
 *	  0                         64          MtpPmemFileHeader: what the file is
 *	  256                       256         MtpPmemMarker: of which state of the data directory the
 *	                                        frames are; only if they are complete
 *	  4096                      64 a frame  MtpPmemHeader: the frame's page, and its checksum
 *	  (a multiple of 1 MB)      1 MB each   slabs: images, as in shared memory
 *	  (behind the last slab)    slack       where a reader may be led astray (buffer/shmem.c)
 *
 * A header or an image counts only if the marker is there.  The marker is the byte range that says
 * which contents of the file are valid: it is written last, at the server's end, and taken away
 * first, at its start.  README.md argues why.
 *
 * seal.c needs nothing of the server, so test/unit/pool_file_test.c can run it alone.  It needs
 * of file.c the file, and of marker.c the state of the data directory.
 */
#ifndef MTP_PMEM_H
#define MTP_PMEM_H

#include "buffer/frame.h"
#include "pmem/media.h"

#define MTP_PMEM_MAGIC		UINT64CONST(0x656d6f48724d7450)
#define MTP_PMEM_MARKED		UINT64CONST(0x6465726b724d7450)
#define MTP_PMEM_FRAME		0x664d7450

/* Raise it with any change of the file, or of what the image of a page is. */
#define MTP_PMEM_LAYOUT		2

typedef struct MtpPmemFileHeader
{
	uint64		magic;
	uint32		layout;
	uint32		nslabs;
	char		unused[48];
} MtpPmemFileHeader;

/*
 * The state of the data directory when it was shut down.  No padding: it is compared and summed up
 * as bytes.
 */
typedef struct MtpPmemState
{
	uint64		system;			/* identifier */
	uint64		checkpoint;
	uint64		redo;
	int64		time;
	uint64		file;			/* inode of the control file: a copy has another one */
	uint32		timeline;
	uint32		path;			/* a hash of the data directory's */
	uint32		server;			/* version of PostgreSQL */
	uint32		build;			/* a hash of how it was built */
	uint32		block;			/* BLCKSZ */
	uint32		nslabs;
} MtpPmemState;

typedef struct MtpPmemMarker
{
	uint64		magic;
	MtpPmemState state;
	uint32		layout;
	uint32		sealed;			/* complete frames */
	uint32		unused;
	uint32		crc;			/* of all before */
} MtpPmemMarker;

typedef struct MtpPmemHeader
{
	uint32		magic;			/* 0: the frame has no page */
	uint32		crc;			/* of what follows, and of the image */
	uint64		serial;			/* the frame's version (its sequence lock) */
	uint64		lsn;			/* of the page; of a pair, the first block's */
	MtpPageTag	tag;
	uint32		frame;			/* its own number */
	uint8		kind;
	uint8		degree;			/* of heat */
	char		unused[18];
} MtpPmemHeader;

StaticAssertDecl(sizeof(MtpPmemFileHeader) == 64 && sizeof(MtpPmemHeader) == 64,
				 "a cache line each");
StaticAssertDecl(sizeof(MtpPmemMarker) == 88, "no padding");

#define MTP_PMEM_MARKER_AT	256
#define MTP_PMEM_HEADERS_AT	4096

typedef struct MtpPmem
{
	MtpMedia	media;			/* the mapped memory; its base is NULL if there is no file */
	uint32		nslabs;
	MtpPmemHeader *headers;
	char	   *images;
	uint64	   *sealed;			/* shared: of each frame, the version sealed, or 0 */
} MtpPmem;

typedef struct MtpSealed
{
	uint32		sealed;			/* frames that are in the file now */
	uint32		left;			/* frames for which there was no time */
} MtpSealed;

typedef struct MtpTaken
{
	uint32		taken;
	uint32		wrong;			/* damaged frames, and pages that have one already */
	uint32		left;			/* frames for which there was no time */
} MtpTaken;

/* ---------- seal.c ---------- */

extern Size mtp_pmem_bytes(uint32 nslabs, Size slack);

/* Bytes of shared memory that MtpPmem.sealed needs */
extern Size mtp_pmem_shared(uint32 nslabs);

/* Sets the addresses of what is mapped, for so many slabs. */
extern void mtp_pmem_lay_out(MtpPmem *file, uint32 nslabs);

/* Makes the file an empty pool file. */
extern void mtp_pmem_format(MtpPmem *file);

/*
 * For MtpBuffer.copy: writes an image in place.  Other processes see it before anything that is
 * stored behind it.
 */
extern void mtp_pmem_copy(void *to, const void *from, Size size);

/*
 * Seals a frame as it is now: writes its header, with a checksum, so that the frame is valid after
 * a restart.  False if there is nothing to seal, or the frame changes meanwhile.  For one process
 * at a time.  copy has 2 * BLCKSZ bytes, MAXALIGNed.
 */
extern bool mtp_seal_frame(MtpPmem *file, MtpBuffer *b, uint32 frame, char *copy);

/*
 * Seals the frames that are not sealed yet, the warmest first, for as long as go_on is true; takes
 * the headers of all others away; and makes that durable.  No other process has the buffer.
 */
extern void mtp_seal_rest(MtpPmem *file, MtpBuffer *b, bool (*go_on) (void), MtpSealed *sealed);

/* Writes the marker, behind mtp_seal_rest. */
extern void mtp_seal_mark(MtpPmem *file, const MtpPmemState *state, uint32 sealed);

typedef enum MtpMark
{
	MTP_MARK_NONE,
	MTP_MARK_WRONG,				/* something is there that is no marker */
	MTP_MARK_FOUND
} MtpMark;

/* Reads the marker and takes it away, durably. */
extern MtpMark mtp_pmem_unmark(MtpPmem *file, MtpPmemMarker *marker);

/*
 * Gives frames the pages that the file has of them, the warmest first, for as long as go_on is
 * true.  No other process has the buffer, and the buffer is empty.
 */
extern void mtp_pmem_take_over(MtpPmem *file, MtpBuffer *b, bool (*go_on) (void), MtpTaken *taken);

/* ---------- file.c, marker.c, background.c: the server's ---------- */

extern MtpPmem mtp_pmem;
extern char *mtp_pmem_path;
extern int	mtp_pmem_size;
extern int	mtp_pmem_seal_timeout;
extern int	mtp_pmem_seal_after;

/*
 * Opens, locks and maps mtpower.pmem_path, in the postmaster, before there is shared memory.
 * Returns the slabs of the buffer: default_slabs if it has no file (mtp_pmem.images is NULL
 * then).  FATAL if the setting is wrong.
 */
extern uint32 mtp_pmem_open(uint32 default_slabs, Size slack);

/*
 * Takes over what the file has, the first time, and makes sure that the postmaster's end seals it.
 * In the postmaster, when the buffer is made.
 */
extern void mtp_pmem_start(void);

/* Registers the sealer, when the settings are known. */
extern void mtp_pmem_background_init(void);

/* init.c: its share of _PG_init */
extern void mtp_pmem_init(void);

#endif							/* MTP_PMEM_H */
