/*
 * losers.h
 *	  A tree of losers, which merges sorted sources, to be included once per kind of sources.
 *
 * Before including define
 *	LOSERS(name)			names of the functions
 *	LOSERS_OF				type of what has the sources
 *	LOSERS_LESS(of, a, b)	true if the current entry of source a comes before that of source b
 *
 * Source i of n is the leaf n + i of the tree, whose root is node 1.  tree[node] is the source that
 * lost there, and tree[0] the winner of all (Knuth, The Art of Computer Programming, volume 3,
 * section 5.4.1).  The next entry costs one comparison a level, where a heap needs two.
 */

/* Who wins at a node; the losers below it are noted. */
static uint16
LOSERS(play) (LOSERS_OF *of, uint16 *tree, int n, int node)
{
	uint16		left,
				right;
	bool		less;

	if (node >= n)
		return node - n;
	left = LOSERS(play) (of, tree, n, 2 * node);
	right = LOSERS(play) (of, tree, n, 2 * node + 1);
	less = LOSERS_LESS(of, left, right);
	tree[node] = less ? right : left;
	return less ? left : right;
}

/* Lets all of n sources play, at least one. */
static inline void
LOSERS(begin) (LOSERS_OF *of, uint16 *tree, int n)
{
	tree[0] = LOSERS(play) (of, tree, n, 1);
}

/* Lets the winner, which has another entry now, play against those that lost to it. */
static inline void
LOSERS(replay) (LOSERS_OF *of, uint16 *tree, int n)
{
	uint16		winner = tree[0];

	for (int node = (n + winner) / 2; node > 0; node /= 2)
		if (LOSERS_LESS(of, tree[node], winner))
		{
			uint16		loser = winner;

			winner = tree[node];
			tree[node] = loser;
		}
	tree[0] = winner;
}

#undef LOSERS
#undef LOSERS_OF
#undef LOSERS_LESS
