/*
 * frames.h
 *	  What the models of table pages and of hazard pointers have of the one of frames.
 */
#ifndef MODEL_FRAMES_H
#define MODEL_FRAMES_H

#include "model.h"

#define P	1					/* pages, as tags; of a table, pairs */
#define Q	2
#define DIRECTORY_OF(which)	((which) + 2)	/* as what a frame says */

#define INDEX		1			/* kinds */
#define TABLE		2
#define DIRECTORY	3
#define SMALL		4				/* of frames: a directory in the smaller size */

/* What is wrong */
#define HALF	"a reader accepted half a page"
#define OTHER	"a reader accepted another page"
#define OLD		"a reader accepted a page older than what it knew of"
#define EMPTY	"a reader believed an empty directory"
#define DOUBLE	"a page has two frames"
#define END		"at the end, a frame is not whole, not its page, or has not one word"
#define WORDLESS "a used frame has no word"

/* The buffer's, and a page's content lock and number */
extern Place version, tag, image, word, partition, kind_of;
extern Place content, page;

/* What a reader has read: nothing, or a page of this number */
typedef struct Read
{
	Value		accepted;
	Value		number;
} Read;

/* A word: where it is, and what it says */
typedef struct Found
{
	Value		found;
	Value		at;
	Value		led;
} Found;

/* Has it been published?  Of a directory: the version that is reserved */
typedef struct Published
{
	Value		done;
	Value		version;
} Published;

/* Index pages alone; a slab for each frame, of its kind; or one slab of frames that may change its kind */
typedef enum Kinds
{
	NO_KINDS, FIXED_KINDS, ONE_SLAB
} Kinds;

/* A buffer of so many frames; buckets of so many words, of both pages or of each. */
extern void make(int frames, int words, bool shared, Kinds kinds);

/* This page is in this frame at first. */
extern bool is_directory(int kind);
extern void in_frame(int kind, int which, int frame);

extern Value partition_of(Value which);
extern Value frame_of(Value led);

/* Where a frame's image begins: a page has two words; in a slab that changes its kind, one, but a pair two. */
extern Value image_at(Value frame);
extern int	image_words(int kind);

#define ANY_KIND	(-1)

extern Found word_of(Value which, Value kind);
extern Value take(Value frame);
extern void let_go(Value frame);
extern Published publish_as(int kind, int which, int frame, Value its_number);
extern void publish(int kind, int which, int frame);
extern void stale(int kind, int which);
extern void change_slab(int kind);

/* The page's number becomes 1, and the frame stale. */
extern void change_page(int which);

/* Reads a page of which the reader knows this number. */
extern Read read_page(int kind, int which, Value known);

/* Somebody's knowledge reaches others as under an LWLock: what was loaded before it, and stored, is performed before it. */
extern void tell(int place, Value n);
extern Value hear(int place);

/* A reader that learns of P from place 0, and one that learns from that reader as well */
extern void two_readers(int kind);

/* Changes leave directories right. */
extern void directories_stay_right(void);

/* What holds of frames always */
extern void must_hold(void);

#endif
