/*
 * frames.h
 *	  What the model of hazard slots has of the one of frames.
 */
#ifndef MODEL_FRAMES_H
#define MODEL_FRAMES_H

#include "model.h"

#define P	1					/* pages, as tags */
#define Q	2

/* What a reader has read: nothing, or a page of this number */
typedef struct Read
{
	Value		accepted;
	Value		number;
} Read;

/* A buffer of so many frames; buckets of so many words, of both pages or of each. */
extern void make(int frames, int words, bool shared);

/* This page is in this frame at first. */
extern void in_frame(int which, int frame);

/* The page's number becomes 1.  Core's changes become stale after their locks are gone. */
extern void change_page(int which, bool by_core);

extern void publish(int which, int frame);

/* Reads a page of which the reader knows this number. */
extern Read read_page(int which, Value known);

/* What holds of frames always */
extern void must_hold(void);

#endif
