//! Methods of doubles that forward to the wrapped value: a double shows only what it changes.
//!
//! Engines have no such macro: their doubles change most methods, and each in its own way.

/// These methods of a [`Storage`](stook::storage::Storage), forwarded to a field.
#[macro_export]
macro_rules! forward_storage {
    (@path $inner:tt) => {
        fn path(&self, name: &str) -> ::std::path::PathBuf {
            self.$inner.path(name)
        }
    };
    (@create $inner:tt) => {
        fn create(&self, name: &str) -> ::stook::Result<Box<dyn ::stook::storage::Appender>> {
            self.$inner.create(name)
        }
    };
    (@open_append $inner:tt) => {
        fn open_append(&self, name: &str) -> ::stook::Result<Box<dyn ::stook::storage::Appender>> {
            self.$inner.open_append(name)
        }
    };
    (@open $inner:tt) => {
        fn open(&self, name: &str) -> ::stook::Result<::std::sync::Arc<dyn ::stook::source::Source>> {
            self.$inner.open(name)
        }
    };
    (@prepare $inner:tt) => {
        fn prepare(&self, name: &str, bytes: &[u8]) -> ::stook::Result<Box<dyn ::stook::storage::Prepared>> {
            self.$inner.prepare(name, bytes)
        }
    };
    (@rename $inner:tt) => {
        fn rename(&self, from: &str, to: &str) -> ::stook::Result<()> {
            self.$inner.rename(from, to)
        }
    };
    (@unlink $inner:tt) => {
        fn unlink(&self, name: &str) -> ::stook::Result<()> {
            self.$inner.unlink(name)
        }
    };
    (@sync_directory $inner:tt) => {
        fn sync_directory(&self) -> ::stook::Result<()> {
            self.$inner.sync_directory()
        }
    };
    (@list $inner:tt) => {
        fn list(&self) -> ::stook::Result<Vec<::stook::storage::Entry>> {
            self.$inner.list()
        }
    };
    (@remove_leftovers $inner:tt) => {
        fn remove_leftovers(&self) -> ::stook::Result<u64> {
            self.$inner.remove_leftovers()
        }
    };
    (@lock $inner:tt) => {
        fn lock(&self, name: &str, holder: &str) -> ::stook::Result<Box<dyn ::stook::storage::Lock>> {
            self.$inner.lock(name, holder)
        }
    };
    (@hold $inner:tt) => {
        fn hold(&self, name: &str) -> ::stook::Result<Box<dyn ::stook::storage::Lock>> {
            self.$inner.hold(name)
        }
    };
    (@unlink_unless_held $inner:tt) => {
        fn unlink_unless_held(&self, name: &str) -> ::stook::Result<bool> {
            self.$inner.unlink_unless_held(name)
        }
    };
    ($inner:tt: $($method:ident)+) => {
        $($crate::forward_storage!(@$method $inner);)+
    };
}

/// These methods of a [`Source`](stook::source::Source), forwarded to a field.
#[macro_export]
macro_rules! forward_source {
    (@path $inner:tt) => {
        fn path(&self) -> &::std::path::Path {
            self.$inner.path()
        }
    };
    (@len $inner:tt) => {
        fn len(&self) -> u64 {
            self.$inner.len()
        }
    };
    (@identity $inner:tt) => {
        fn identity(&self) -> ::stook::source::Identity {
            self.$inner.identity()
        }
    };
    (@current_identity $inner:tt) => {
        fn current_identity(&self) -> ::stook::Result<::stook::source::Identity> {
            self.$inner.current_identity()
        }
    };
    (@resolve $inner:tt) => {
        fn resolve(
            &self,
            range: ::stook::extent::ByteRange,
            leaves: &mut Vec<::stook::source::Leaf>,
        ) -> ::stook::Result<()> {
            self.$inner.resolve(range, leaves)
        }
    };
    ($inner:tt: $($method:ident)+) => {
        $($crate::forward_source!(@$method $inner);)+
    };
}
