// Ends every preamble: instantiates what most programs instantiate, so that their parses find it done.
#ifdef _GLIBCXX_VECTOR
namespace __hipsynth {
template <typename T>
void use() {
  std::vector<T> empty, filled(1, T()), sized(1), copied(sized), listed{T(), T()};
  empty.push_back(T());
  empty.resize(2);
  empty = copied;
  for (const T& item : listed) empty.emplace_back(item);
  empty.assign(empty.size(), *filled.data());
  std::vector<T> taken(empty.begin(), empty.end());
  taken[0] = empty.back();
}
inline void instances() {
  use<float>();
  use<double>();
  use<int>();
  use<unsigned>();
  use<long>();
  use<unsigned long>();
  use<unsigned long long>();
  use<unsigned char>();
}
}  // namespace __hipsynth
#endif
