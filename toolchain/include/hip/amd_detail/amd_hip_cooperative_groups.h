// Some programs include the detail header by name.
#include <hip/hip_cooperative_groups.h>
