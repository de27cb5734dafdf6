// Some programs include the detail header by name.
#include <hip/hip_bf16.h>
