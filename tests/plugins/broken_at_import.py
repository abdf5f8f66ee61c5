"""A plugin that cannot be imported, as one whose library is missing cannot."""

import a_library_that_is_not_installed  # type: ignore[import-not-found]  # noqa: F401
