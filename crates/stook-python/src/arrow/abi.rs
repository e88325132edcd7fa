//! The structures of Arrow's C data interface and C stream interface.
//!
//! All three are moved by copying their bytes and marking the source as released: its `release` is
//! null then. What is dropped here without having been moved is released.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The names of the capsules.
pub(super) const SCHEMA: &CStr = c"arrow_schema";
pub(super) const STREAM: &CStr = c"arrow_array_stream";

/// The flag of a field whose cells may be null.
pub(super) const NULLABLE: i64 = 2;

/// The type of a column or of a table.
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub(super) private_data: *mut c_void,
}

/// The cells of a column, or the columns of a batch.
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub(super) private_data: *mut c_void,
}

/// Batches of a table, one after another.
#[repr(C)]
pub(super) struct ArrowArrayStream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub(super) private_data: *mut c_void,
}

impl ArrowSchema {
    /// One that is to be filled.
    pub(super) const fn empty() -> Self {
        Self {
            format: ptr::null(),
            name: ptr::null(),
            metadata: ptr::null(),
            flags: 0,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

impl ArrowArray {
    /// One that is to be filled.
    pub(super) const fn empty() -> Self {
        Self {
            length: 0,
            null_count: 0,
            offset: 0,
            n_buffers: 0,
            n_children: 0,
            buffers: ptr::null_mut(),
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: None,
            private_data: ptr::null_mut(),
        }
    }
}

macro_rules! released_when_dropped {
    ($($type:ident)+) => {$(
        impl Drop for $type {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it was not released, or `release` would be null, and it is not used
                    // after this.
                    unsafe { release(self) }
                }
            }
        }

        // SAFETY: the interfaces allow a structure to be used, and released, by any thread, by one
        // at a time.
        unsafe impl Send for $type {}
    )+};
}

released_when_dropped! { ArrowSchema ArrowArray ArrowArrayStream }
