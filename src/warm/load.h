/*
 * load.h
 *	  Loads pages of one relation into the buffer's frames before any query reads them.
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
	bool		serves;			/* its pages may have frames */
	bool		has_builder;
	BlockNumber nblocks;
	BufferAccessStrategy strategy;
	MtpPagedirBuilder builder;	/* of directories */
} MtpLoader;

/* True if the relation is an index or a table whose pages may have frames. */
extern bool mtp_loader_takes(Relation rel);

/*
 * Opens a loader for such a relation.  The caller has it open and locked, in any mode, and its
 * table as well if it is an index.  Memory comes from the current context.  strategy is the
 * caller's ring of buffers, in use until mtp_loader_close; nothing that is loaded needs it.
 */
extern void mtp_loader_open(MtpLoader *l, Relation rel, BufferAccessStrategy strategy);
extern void mtp_loader_close(MtpLoader *l);

/*
 * Loads a page: of an index, its block; of a table, the pair whose first block this is
 * (MTP_FRAME_TABLE) or its directory, if the table has directory columns (MTP_FRAME_PAGEDIR).  The
 * page is as warm as degree says (0 … MTP_HEAT_MOST), with a frame or without.  Workers build
 * directories whose comparison functions must not run here.  Raises what reading a page raises.
 * The caller holds no lock on a page.
 */
extern void mtp_loader_load(MtpLoader *l, int kind, BlockNumber block, int degree);

/* True if mtp_loader_load seems to have to read the page, here and now. */
extern bool mtp_loader_reads(MtpLoader *l, int kind, BlockNumber block);

/* Asks the operating system for what mtp_loader_load would read, and waits for nothing. */
extern void mtp_loader_prefetch(MtpLoader *l, int kind, BlockNumber block);

/* True if the page seems to have a frame. */
extern bool mtp_loader_has(MtpLoader *l, int kind, BlockNumber block);

#endif							/* MTP_WARM_LOAD_H */
