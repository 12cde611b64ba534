/*
 * load.h
 *	  Pages of one relation, loaded into the buffer's frames though nobody has asked for them.
 */
#ifndef MTP_WARM_LOAD_H
#define MTP_WARM_LOAD_H

#include "core/core.h"

#include "buffer/pair.h"
#include "pagedir/request.h"

typedef struct MtpLoader
{
	Relation	rel;
	bool		is_index;
	bool		serves;			/* pages of it can be in frames */
	bool		has_builder;
	BlockNumber nblocks;
	BufferAccessStrategy strategy;
	MtpPagedirBuilder builder;	/* of directories */
} MtpLoader;

/* May pages of this relation have frames at all: is it an index or a table of mtpower's? */
extern bool mtp_loader_takes(Relation rel);

/*
 * For such a relation, which the caller has open and locked, in any mode, and its table as well if it is an index.  Memory comes from the current context.  strategy: the caller's ring of
 * buffers, until mtp_loader_close, which nothing that is loaded needs.
 */
extern void mtp_loader_open(MtpLoader *l, Relation rel, BufferAccessStrategy strategy);
extern void mtp_loader_close(MtpLoader *l);

/*
 * Loads a page: of an index, its block; of a table, the pair that block, an even one, is the first of (kind MTP_FRAME_TABLE), or its directory, if the table has directory columns
 * (MTP_FRAME_PAGEDIR).  It is as warm as level says (0 … MTP_HEAT_MOST), with a frame or without.  A directory whose comparison functions are not to be run here is left to workers.  Raises what
 * reading a page raises.  With no lock on a page.
 */
extern void mtp_loader_load(MtpLoader *l, int kind, BlockNumber block, int level);

/* Asks the operating system for what mtp_loader_load of it would read; nothing is waited for. */
extern void mtp_loader_prefetch(MtpLoader *l, int kind, BlockNumber block);

/* Has the page a frame?  A guess. */
extern bool mtp_loader_has(MtpLoader *l, int kind, BlockNumber block);

#endif							/* MTP_WARM_LOAD_H */
