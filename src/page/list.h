/*
 * list.h
 *	  Lists: items of a leaf that hold one key, and the TIDs of several entries that have it.
 *
 *	  | IndexTupleData | key … | first TID | dead | s, k | differences … |
 *	  0                8       key size    +6     +8     +9              IndexTupleSize
 *
 * The header is that of nbtree's posting lists: the TID's block number is the key's size (the
 * posting offset), its offset is the number of TIDs with BT_IS_POSTING.  So core's functions find
 * the key's attributes, and BTreeTupleGetHeapTID the first TID; those that look at further TIDs
 * (BTreeTupleGetMaxHeapTID, _bt_truncate) must not see a list.
 *
 * `dead` is a hint: so many TIDs from the first on are of rows that are dead to everyone.
 *
 * The differences are those of neighbouring TIDs as numbers block << s | offset, where s is the
 * least number of bits that holds all the list's offsets.  They are a string of bits, low bits of a
 * byte first, filled with zeros to a byte.  One of up to k bits is a one bit and these k bits.  One
 * of k + c bits is c zeros, a one bit, and its k + c - 1 low bits: the top one is known.  The list
 * takes the k that makes it shortest when it is made.
 *
 * Everything here is bounded by the tuple's own size, raises nothing, and allocates only where that
 * is said; so it serves critical sections, replay, and bytes that are damaged or being changed.
 */
#ifndef MTP_LIST_H
#define MTP_LIST_H

#include "core/core.h"

#include "access/htup_details.h"
#include "access/itup.h"
#include "access/nbtree.h"

typedef struct MtpListHead
{
	ItemPointerData first;
	uint16		dead;
} MtpListHead;

StaticAssertDecl(sizeof(MtpListHead) == 8, "a list's head has its place");

/* The most bytes behind a list's key, and the most TIDs */
#define MTP_LIST_BYTES	512
#define MTP_LIST_TIDS	505

/* So many make a list full.  Builds with fewer merge and cut more (test/README.md, LIST_TIDS). */
#ifndef MTP_LIST_FULL
#define MTP_LIST_FULL	MTP_LIST_TIDS
#endif

/* Behind the head: s - MTP_LIST_LEAST_S | (k - MTP_LIST_LEAST_K) << 3, and the differences. */
#define MTP_LIST_LEAST_S	4
#define MTP_LIST_LEAST_K	3
#define MTP_LIST_KS			32	/* values of k */
#define MTP_LIST_LENS		44	/* a difference has fewer bits: those of blocks and of offsets */
#define MTP_LIST_BITS_AT	(sizeof(MtpListHead) + 1)

/* A difference takes so many bits at least. */
#define MTP_LIST_LEAST_BITS (MTP_LIST_LEAST_K + 1)

#define MtpListHeadOf(itup) ((MtpListHead *) ((char *) (itup) + BTreeTupleGetPostingOffset(itup)))

static inline bool
mtp_item_is_list(IndexTuple itup)
{
	return BTreeTupleIsPosting(itup);
}

/* The number of entries that an item stands for */
static inline int
mtp_item_entries(IndexTuple itup)
{
	return mtp_item_is_list(itup) ? BTreeTupleGetNPosting(itup) : 1;
}

/* The bytes of an entry's header and key: all of a tuple that is no list */
static inline Size
mtp_item_key_size(IndexTuple itup)
{
	return mtp_item_is_list(itup) ? BTreeTupleGetPostingOffset(itup) : IndexTupleSize(itup);
}

/*
 * TIDs as numbers of the same order, dense enough for small differences.  A possible TID
 * (mtp_tid_possible) has an offset of so many bits, whatever the block size.
 */
#define MTP_TID_BITS	11

StaticAssertDecl(MaxHeapTuplesPerPage < 1 << MTP_TID_BITS, "offsets of rows have their bits");
StaticAssertDecl(MTP_LIST_FULL >= 2 && MTP_LIST_FULL <= MTP_LIST_TIDS, "lists have their TIDs");
StaticAssertDecl(MTP_TID_BITS + 32 < MTP_LIST_LENS, "differences have their bits");
StaticAssertDecl(MTP_TID_BITS - MTP_LIST_LEAST_S < 8, "three bits tell how many they are in a list");

static inline uint64
mtp_tid_code(const ItemPointerData *tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << MTP_TID_BITS) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
mtp_tid_of_code(uint64 code, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (code >> MTP_TID_BITS),
				   (OffsetNumber) (code & ((1 << MTP_TID_BITS) - 1)));
}

/* True if two tuples of an index, lists or not, have the very bytes of a key in common. */
extern bool mtp_item_same_key(IndexTuple a, IndexTuple b);

/*
 * What is wrong with a list's header and size, or NULL; a glance, that looks at no further TID.
 * Where it is good, the key's bounds are, and mtp_list_decode stays within the tuple.
 */
extern const char *mtp_list_fault(IndexTuple itup);

/*
 * Copies a list's TIDs, in order, to tids (room for MTP_LIST_TIDS); returns their number, or 0 if
 * they are damaged: not as many as the header says, not ascending, or impossible.
 */
extern int	mtp_list_decode(IndexTuple itup, ItemPointerData *tids);

/* The same for any entry of a leaf, of which a plain one is a list of one. */
static inline int
mtp_item_decode(IndexTuple itup, ItemPointerData *tids)
{
	if (likely(!mtp_item_is_list(itup)))
	{
		tids[0] = itup->t_tid;
		return 1;
	}
	return mtp_list_decode(itup, tids);
}

/* The last TID of an entry of a leaf; the first one where a list is damaged. */
extern ItemPointerData mtp_item_last_tid(IndexTuple itup);

/* A list that is being made.  Of codes[] only the first n are set: to begin one costs little. */
typedef struct MtpListMaker
{
	IndexTuple	itup;			/* in the caller's room; a plain tuple until the end */
	int			n;
	int			limit;			/* bits that the differences may take */
	int			s;				/* bits of an offset */
	int			k;				/* that will do, … */
	int			bits;			/* … and what the differences take with it */
	uint16		lens[MTP_LIST_LENS];	/* differences of so many bits */
	uint64		codes[MTP_LIST_TIDS];
} MtpListMaker;

/*
 * Begins a list with the key of an entry (plain or list) and a TID, in buf of `room` bytes, or as
 * many as the key takes.
 */
extern void mtp_list_begin(MtpListMaker *m, char *buf, Size room, IndexTuple key,
						   const ItemPointerData *tid);

/* Adds a TID above the last one; false if there is no room for it, and the list is as it was. */
extern bool mtp_list_add(MtpListMaker *m, const ItemPointerData *tid);

/* Finishes it, as a plain tuple if it has one TID; returns the tuple's size. */
extern Size mtp_list_end(MtpListMaker *m);

/*
 * Takes the TIDs at[0] < at[1] < …, not all of them, out of a list.  It stays in its place, and
 * is a plain tuple if one is left.  A list that is damaged stays as it is.
 */
extern void mtp_list_remove(IndexTuple itup, int n, const uint16 *at);

/* So many TIDs join an entry at once, at most. */
#define MTP_LIST_JOIN	Min(16, MTP_LIST_FULL)

/*
 * Puts n TIDs, 1 .. MTP_LIST_JOIN, into an entry (plain or list), behind its first one; they
 * ascend, and all lie between the same two of its TIDs or behind the last one.  made[0] gets the
 * list that comes of it.  Where that has no room made[0] and made[1] become its halves or, if the
 * TIDs come behind the last, the old list and one of several new TIDs.  Returns how many they are;
 * palloc'd.  0 if there is no room, the list or the TIDs are damaged, or it has a TID.  room: for
 * the largest list.
 */
extern int	mtp_list_splice(IndexTuple item, int n, const ItemPointerData *tids, Size room,
							IndexTuple *made);

/*
 * Makes lists of n leaf items in key order: what has the same key becomes as few items as possible,
 * in the order of its TIDs, with intervals that don't overlap.  Bit i of same[] says that item i
 * has the key of the one before it.  Returns the new items, whose number *n gets; palloc'd, as is
 * what is new among them.  NULL if a list is damaged.  room: for the largest list.  (*ends)[i], if
 * ends is not NULL, tells how many of the old items new item i and those before it are made of.
 */
extern IndexTuple *mtp_list_merge(const IndexTuple *items, int *n, const uint8 *same, Size room,
								  int **ends);

#define MTP_SAME_BYTES(nitems)	(((nitems) + 7) / 8)
#define MTP_SAME_BIT(same, i)	(((same)[(i) / 8] & (1 << ((i) % 8))) != 0)

/* A copy of an entry's key with one TID, as a plain tuple; palloc'd. */
extern IndexTuple mtp_item_plain(IndexTuple itup, const ItemPointerData *tid);

#endif							/* MTP_LIST_H */
