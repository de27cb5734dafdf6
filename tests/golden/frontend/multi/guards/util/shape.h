#pragma once
#include "math.h"
struct Shape {
  float width, height;
};
