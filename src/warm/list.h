/*
 * list.h
 *	  The hot list: a file that says which pages had frames, how warm they were, and which
 *	  columns scans have taught.
 *
 *	  MtpListHeader
 *	  MtpListPage		npages of them, in no order; may name a page twice
 *	  MtpLearnt			nlearnt of them, in no order
 *
 * The writer writes it under another name, makes it durable and renames it.  Whatever it contains,
 * nothing worse comes of it than pages that are read and not needed: a loader loads a page under
 * its relation's lock, from the relation.
 */
#ifndef MTP_WARM_LIST_H
#define MTP_WARM_LIST_H

#include "core/core.h"

#include "buffer/buffer.h"
#include "pagedir/learn.h"

/* In the data directory.  A base backup and pg_rewind copy them: they name the same pages there. */
#define MTP_LIST_FILE		"mtpower.hot"
#define MTP_LIST_TEMPORARY	"mtpower.hot.tmp"

#define MTP_LIST_MAGIC		UINT64CONST(0x7473694c74486d50)

/* To be raised with any change below */
#define MTP_LIST_VERSION	1

typedef struct MtpListHeader
{
	uint64		magic;
	uint32		version;
	uint32		block;			/* BLCKSZ */
	uint64		system;			/* identifier of the cluster */
	int64		time;			/* when it was written */
	uint64		npages;
	uint32		nlearnt;
	uint32		rest_crc;		/* of all behind the header */
	uint32		unused;
	uint32		crc;			/* of the header */
} MtpListHeader;

typedef struct MtpListPage
{
	Oid			space;
	Oid			dbid;
	Oid			file;
	BlockNumber block;			/* a pair's first one */
	uint8		kind;			/* MTP_FRAME_*, of the frame */
	uint8		degree;			/* of heat, when the list was written */
	uint16		unused;
} MtpListPage;

StaticAssertDecl(sizeof(MtpListHeader) == 56 && sizeof(MtpListPage) == 20 &&
				 sizeof(MtpLearnt) == 60, "no padding: it is summed up as it is");

/*
 * Writes what the buffer has now.  While pages are being loaded it also keeps what the buffer
 * lacks of the earlier list, at most as much again as the buffer could have.  An interrupt leaves
 * an unfinished file beside the list.  On failure it logs a line and leaves the list as it was.
 */
extern void mtp_list_write(bool loading);

/*
 * Reads the file and gives each page to `page`, in no order.  What `page` collects counts only if
 * this returns true: the file is there and right.  Else *why says what is wrong; NULL: there is no
 * file.  learnt has room for MTP_LEARN_TABLES, or is NULL; *nlearnt is their number.  Can be
 * interrupted.
 */
extern bool mtp_list_read(void (*page) (const MtpListPage *page, void *arg), void *arg,
						  MtpLearnt *learnt, int *nlearnt, const char **why);

#endif							/* MTP_WARM_LIST_H */
