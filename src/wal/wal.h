/*
 * wal.h
 *	  mtpower's resource manager, and the one way to change an mtpower index page.
 *
 * README.md lists the records.  Each room registers its records here, and has their redo
 * functions.
 */
#ifndef MTP_WAL_H
#define MTP_WAL_H

#include "core/core.h"

#include "access/xlogreader.h"
#include "access/xloginsert.h"
#include "lib/stringinfo.h"
#include "storage/buf.h"
#include "storage/bufpage.h"

/* The resource manager's id, one for ever: it is in every record of every cluster. */
#define MTP_RMGR_ID			155

/* Records (the upper four bits of xl_info).  Those from 0x80 to 0xE0 are the hash index's. */
#define MTP_WAL_INSERT		0x00
#define MTP_WAL_SPLIT		0x10
#define MTP_WAL_NEWROOT		0x20
#define MTP_WAL_DELETE		0x30
#define MTP_WAL_VACUUM		0x40
#define MTP_WAL_UNLINK		0x50
#define MTP_WAL_MORE		0x60	/* one of MtpWalKind */
#define MTP_WAL_BTREE_INSERT 0x70
#define MTP_WAL_HASH_INSERT 0x80
#define MTP_WAL_HASH_ADD	0x90
#define MTP_WAL_HASH_SPLIT	0xA0
#define MTP_WAL_HASH_META	0xB0
#define MTP_WAL_HASH_DELETE 0xC0
#define MTP_WAL_HASH_VACUUM 0xD0
#define MTP_WAL_HASH_PAGES	0xE0
#define MTP_WAL_BTREE_SPLIT 0xF0

/*
 * There are no more ids: what a record of MTP_WAL_MORE is its first byte says.  A new record gets
 * the next kind.
 */
typedef enum MtpWalKind
{
	MTP_WAL_REUSE
} MtpWalKind;

#define MTP_WAL_KINDS		1

typedef struct MtpWalRecord
{
	const char *name;
	void		(*redo) (XLogReaderState *record);
	void		(*desc) (StringInfo buf, XLogReaderState *record);
} MtpWalRecord;

/* For redo: the number of one of the record's blocks, and the end of what it has locked. */
extern BlockNumber mtp_redo_block(XLogReaderState *record, int block);
extern void mtp_redo_release(const Buffer *bufs, int n);

/* Both make a record known.  Only from _PG_init; *rec must live for ever. */
extern void mtp_wal_record(uint8 info, const MtpWalRecord *rec);
extern void mtp_wal_record_of_kind(MtpWalKind kind, const MtpWalRecord *rec);

/*
 * Registers how to make a page comparable with its replay: mask hides what replay need not
 * reproduce.  It serves pages of types (MtpPageHeader.type) from least_type up to those of another
 * mask.  Only from _PG_init.
 */
extern void mtp_wal_mask(uint8 least_type, void (*mask) (Page page));

/* Its share of _PG_init. */
extern void mtp_wal_init(void);

/*
 * A change of index pages.  Every modification of an mtpower index page that is logged, or would
 * be if its relation were, stands between mtp_change_begin and mtp_change_finish.  The caller holds
 * the content locks of all buffers, exclusive, from before begin until finish has returned.  A
 * critical section lasts from begin to finish: between them nothing may raise an error, allocate,
 * or wait.  Data that is passed must live until finish.  mtp_change_buffer returns the block's
 * number in the record.  README.md has an example, and numbers the rules (W1 ... W7).
 */
#define MTP_CHANGE_BUFFERS	32
#define MTP_CHANGE_CHUNKS	64

typedef struct MtpChange
{
	Relation	rel;
	bool		logged;
	uint8		info;
	int			nbufs;
	int			nchunks;
	volatile uint32 *progress;	/* set to progress_to in the critical section */
	uint32		progress_to;
	Buffer		bufs[MTP_CHANGE_BUFFERS];
	uint8		bufflags[MTP_CHANGE_BUFFERS];
	struct
	{
		int			buf;		/* -1: the record's main data */
		const void *data;
		uint32		len;
	}			chunks[MTP_CHANGE_CHUNKS];
} MtpChange;

extern void mtp_change_init(MtpChange *c, Relation rel, uint8 info);
extern int	mtp_change_buffer(MtpChange *c, Buffer buf, uint8 flags);
extern void mtp_change_begin(MtpChange *c);
extern void mtp_change_data(MtpChange *c, const void *data, uint32 len);
extern void mtp_change_bufdata(MtpChange *c, int buf, const void *data, uint32 len);
extern void mtp_change_finish(MtpChange *c);

#endif							/* MTP_WAL_H */
