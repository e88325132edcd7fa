"""The interfaces of other packages over the files of this one: their users change one import."""
