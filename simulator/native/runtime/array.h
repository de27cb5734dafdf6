// hipArray: rows of elements with one to four channels; copies address it by element and row.
#pragma once

#include "copy.h"

struct hipArray {
  hipChannelFormatDesc channels;
  size_t width, height, depth;  // in elements, rows and slices; 0: dimension not present
  unsigned flags;
  void* data;

  size_t element() const { return static_cast<size_t>(channels.x + channels.y + channels.z + channels.w) / 8; }
  size_t pitch() const { return width * element(); }
  size_t rows() const { return height == 0 ? 1 : height; }
  size_t slices() const { return depth == 0 ? 1 : depth; }
  size_t bytes() const {
    using hipsynth::runtime::saturating_product;
    return saturating_product(saturating_product(width, element()), saturating_product(rows(), slices()));
  }
};

namespace hipsynth::runtime {

inline constexpr unsigned kArrayLayered = 1, kArrayCubemap = 4;  // of hipArray::flags
// What the fields of an image's descriptor hold: texels a row, also with padding, rows, and slices or layers.
inline constexpr size_t kMostImageWidth = 1 << 14, kMostImagePitch = 1 << 16;
inline constexpr size_t kMostImageHeight = 1 << 14, kMostImageDepth = 1 << 13;

bool known(const hipArray* array);
// Start address of a block (`x` in bytes); null base if the block does not fit the array.
Place place_in(const hipArray& array, size_t x, size_t y, size_t z, const Block& block);
void forget_arrays();
void forget_textures();  // texture.cpp

}  // namespace hipsynth::runtime
