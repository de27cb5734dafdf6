// Some programs include the detail header by name.
#include <hip/hip_fp8.h>
