"""The interfaces of other packages over the files of this one: a user of theirs changes one import."""
