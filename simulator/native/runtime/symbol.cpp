// Access to __device__, __constant__ and __managed__ variables through their host shadow.
#include "copy.h"

namespace hipsynth::runtime {

// A file-local symbol of linked device code has a suffix, and the same name without it may be another file's.
DeviceSymbol symbol_of(const Module& module, const Variable& variable) {
  for (const std::string& name : {variable.name + variable.suffix, variable.name}) {
    const auto [address, size] = module.global(name);
    if (address != 0) return {name, address, size};
  }
  return {};
}

}  // namespace hipsynth::runtime

using namespace hipsynth::runtime;

namespace {

// Device address and size of the variable behind a host shadow; (null, 0) if unknown.
std::pair<char*, size_t> resolve(Runtime& rt, const void* shadow) {
  auto variable = rt.variables.find(shadow);
  if (variable == rt.variables.end()) return {nullptr, 0};
  if (variable->second.storage != nullptr) return {static_cast<char*>(variable->second.storage), variable->second.size};
  const uint64_t address = symbol_of(rt.program(variable->second.module), variable->second).address;
  return {reinterpret_cast<char*>(address), address == 0 ? 0 : variable->second.size};
}

hipError_t to_symbol(const void* shadow, const void* src, size_t n, size_t offset, hipMemcpyKind kind, hipStream_t s) {
  return call([&](Runtime& rt) -> hipError_t {
    auto [address, size] = resolve(rt, shadow);
    if (address == nullptr) return hipErrorInvalidSymbol;
    if (offset > size || n > size - offset) return hipErrorInvalidValue;
    if (kind == hipMemcpyDeviceToHost || kind == hipMemcpyHostToHost) return hipErrorInvalidMemcpyDirection;
    return copy(rt, address + offset, src, n, kind, s);
  });
}

hipError_t from_symbol(void* dst, const void* shadow, size_t n, size_t offset, hipMemcpyKind kind, hipStream_t s) {
  return call([&](Runtime& rt) -> hipError_t {
    auto [address, size] = resolve(rt, shadow);
    if (address == nullptr) return hipErrorInvalidSymbol;
    if (offset > size || n > size - offset) return hipErrorInvalidValue;
    if (kind == hipMemcpyHostToDevice || kind == hipMemcpyHostToHost) return hipErrorInvalidMemcpyDirection;
    return copy(rt, dst, address + offset, n, kind, s);
  });
}

}  // namespace

HIPSYNTH_EXPORT hipError_t hipMemcpyToSymbol(const void* symbol, const void* src, size_t n, size_t offset,
                                             hipMemcpyKind kind) {
  return synchronous([&] { return to_symbol(symbol, src, n, offset, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* src, size_t n, size_t offset,
                                                  hipMemcpyKind kind, hipStream_t stream) {
  return to_symbol(symbol, src, n, offset, kind, stream);
}
HIPSYNTH_EXPORT hipError_t hipMemcpyFromSymbol(void* dst, const void* symbol, size_t n, size_t offset,
                                               hipMemcpyKind kind) {
  return synchronous([&] { return from_symbol(dst, symbol, n, offset, kind, nullptr); });
}
HIPSYNTH_EXPORT hipError_t hipMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t n, size_t offset,
                                                    hipMemcpyKind kind, hipStream_t stream) {
  return from_symbol(dst, symbol, n, offset, kind, stream);
}

HIPSYNTH_EXPORT hipError_t hipGetSymbolAddress(void** out, const void* symbol) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = resolve(rt, symbol).first;
    return *out == nullptr ? hipErrorInvalidSymbol : hipSuccess;
  });
}

HIPSYNTH_EXPORT hipError_t hipGetSymbolSize(size_t* out, const void* symbol) {
  return call([&](Runtime& rt) -> hipError_t {
    if (out == nullptr) return hipErrorInvalidValue;
    *out = resolve(rt, symbol).second;
    return *out == 0 ? hipErrorInvalidSymbol : hipSuccess;
  });
}
