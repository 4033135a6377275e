/* The fingerprint of the sources that this library was built from: see source.py, which setup.py and library.py use. */

#ifndef WEFT_SOURCE
#define WEFT_SOURCE unknown
#endif
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *weft_source(void) { return TEXT(WEFT_SOURCE); }
