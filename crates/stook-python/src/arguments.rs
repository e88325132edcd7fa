//! Converters of arguments that name the argument in their errors.

/// Functions for `from_py_with`, each named as the argument that it converts: PyO3 does not pass
/// the name on.
macro_rules! arguments {
    ($argument:ident -> $type:ty: $($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name(value: &Bound<'_, PyAny>) -> PyResult<$type> {
            $argument(stringify!($name), value)
        }
    )+};
    ($argument:ident: $($name:ident)+) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        pub(crate) fn $name<'a, 'py, T: FromPyObject<'a, 'py, Error = PyErr>>(
            value: &'a Bound<'py, PyAny>,
        ) -> PyResult<T> {
            $argument(stringify!($name), value)
        }
    )+};
}

pub(crate) use arguments;
