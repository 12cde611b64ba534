/*
 * keys.c
 *	  Hashes index rows and scan keys.
 *
 * Support function 1 hashes a column, with the column's collation.  Values that operators of the
 * family hold to be equal have equal hashes, whatever their types: an operator family of hash
 * classes promises that.
 */
#include "core/core.h"
#include "hash/hash.h"

#include "access/hash.h"
#include "catalog/pg_collation.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* The hash of a NULL behind the first column. */
#define NULL_HASH 0x7F4A7C15

/* Hash functions of other types than the columns' own, as in bigint = integer. */
#define KNOWN_TYPES 8

static struct
{
	Oid			family;
	Oid			type;
	Oid			proc;
}			known[KNOWN_TYPES];

static void
forget_types(Datum arg, int cacheid, uint32 hashvalue)
{
	memset(known, 0, sizeof(known));
}

/* Finds the hash function of a type in the operator family of a column. */
static Oid
type_hash_proc(Relation index, int col, Oid type)
{
	static bool listening = false;
	Oid			family = index->rd_opfamily[col];
	int			slot = (family ^ type) % KNOWN_TYPES;
	Oid			proc;

	if (known[slot].family == family && known[slot].type == type)
		return known[slot].proc;
	if (!listening)
	{
		CacheRegisterSyscacheCallback(AMPROCNUM, forget_types, (Datum) 0);
		listening = true;
	}

	proc = get_opfamily_proc(family, type, type, HASHSTANDARD_PROC);
	if (!OidIsValid(proc))
		elog(ERROR, "missing support function %d(%u,%u) for index \"%s\"",
			 HASHSTANDARD_PROC, type, type, RelationGetRelationName(index));
	known[slot].family = family;
	known[slot].type = type;
	known[slot].proc = proc;
	return proc;
}

/*
 * A name gets the hash of its text where different strings may be equal: the equality of names goes
 * by a collation, also with text, and their hash function does not.
 */
static inline uint32
hash_value(FmgrInfo *proc, Oid collation, Datum value)
{
	if (unlikely(proc->fn_oid == F_HASHNAME) && OidIsValid(collation) &&
		collation != C_COLLATION_OID && !get_collation_isdeterministic(collation))
	{
		text	   *t = cstring_to_text(NameStr(*DatumGetName(value)));
		Datum		hash = DirectFunctionCall1Coll(hashtext, collation, PointerGetDatum(t));

		pfree(t);
		return DatumGetUInt32(hash);
	}
	return DatumGetUInt32(FunctionCall1Coll(proc, collation, value));
}

static inline uint32
hash_column(Relation index, int col, Datum value)
{
	return hash_value(index_getprocinfo(index, col + 1, HASHSTANDARD_PROC),
					  index->rd_indcollation[col], value);
}

/* Hashes a scan key's argument by the hash function of its own type. */
static inline uint32
hash_argument(Relation index, int col, ScanKey key)
{
	Oid			type = key->sk_subtype;
	FmgrInfo	proc;

	if (likely(type == index->rd_opcintype[col] || !OidIsValid(type)))
		return hash_column(index, col, key->sk_argument);
	fmgr_info(type_hash_proc(index, col, type), &proc);
	return hash_value(&proc, index->rd_indcollation[col], key->sk_argument);
}

/* Adds a column's hash: not symmetric, so (1, 2) is not (2, 1); bijective in `column`. */
static inline uint32
add_column(uint32 hash, uint32 column)
{
	return hash_combine(mtp_hash_spread(hash), column);
}

bool
mtp_hash_row(Relation index, const Datum *values, const bool *isnull, uint32 *hash)
{
	int			natts = IndexRelationGetNumberOfKeyAttributes(index);
	uint32		h;

	if (isnull[0])
		return false;
	h = hash_column(index, 0, values[0]);
	for (int col = 1; col < natts; col++)
		h = add_column(h, isnull[col] ? NULL_HASH : hash_column(index, col, values[col]));
	*hash = mtp_hash_spread(h);
	return true;
}

static inline uint32
hash_key(Relation index, int col, ScanKey key)
{
	return key->sk_flags & SK_ISNULL ? NULL_HASH : hash_argument(index, col, key);
}

/* Takes the first of several equalities for a column: rows are rechecked anyway. */
MtpHashSearch
mtp_hash_keys(Relation index, ScanKey keys, int nkeys, uint32 *hash)
{
	int			natts = IndexRelationGetNumberOfKeyAttributes(index);
	ScanKey		of_column[INDEX_MAX_KEYS];
	uint32		h;

	Assert(natts > 0);
	memset(of_column, 0, natts * sizeof(ScanKey));
	for (int i = 0; i < nkeys; i++)
	{
		ScanKey    *key = &of_column[keys[i].sk_attno - 1];

		Assert(keys[i].sk_strategy == HTEqualStrategyNumber);
		if ((keys[i].sk_flags & (SK_ISNULL | SK_SEARCHNULL)) == SK_ISNULL)
			return MTP_HASH_NONE;
		if (*key == NULL)
			*key = &keys[i];
	}
	if (of_column[0] != NULL && (of_column[0]->sk_flags & SK_ISNULL))
		return MTP_HASH_NULLS;
	for (int col = 0; col < natts; col++)
		if (of_column[col] == NULL)
			return MTP_HASH_ALL;

	h = hash_argument(index, 0, of_column[0]);
	for (int col = 1; col < natts; col++)
		h = add_column(h, hash_key(index, col, of_column[col]));
	*hash = mtp_hash_spread(h);
	return MTP_HASH_ONE;
}
