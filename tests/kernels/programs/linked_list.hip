// A list and a tree in managed memory: built on the host, walked by kernels through pointers, one of them recursively.
#include "check.h"

struct Node {
  int value;
  Node* next;
  Node* child[2];
};

__device__ int depth_sum(const Node* node, int depth) {
  if (node == nullptr) return 0;
  return node->value * depth + depth_sum(node->child[0], depth + 1) + depth_sum(node->child[1], depth + 1);
}

__global__ void walk(Node** heads, int* sums) {
  int sum = 0;
  for (Node* node = heads[threadIdx.x]; node != nullptr; node = node->next) sum += node->value++;
  sums[threadIdx.x] = sum;
}

__global__ void climb(const Node* root, int* sum) { *sum = depth_sum(root, 1); }

int main() {
  const int lists = 64, nodes = 1000;
  Node *pool, **heads;
  int* sums;
  OK(hipMallocManaged((void**)&pool, nodes * sizeof(Node)));
  OK(hipMallocManaged((void**)&heads, lists * sizeof(Node*)));
  OK(hipMallocManaged((void**)&sums, (lists + 1) * sizeof(int)));
  int expected[lists] = {};
  for (int i = 0; i < lists; ++i) heads[i] = nullptr;
  for (int i = 0; i < nodes; ++i) {
    int list = i * i % lists;
    pool[i] = {i, heads[list], {nullptr, nullptr}};
    heads[list] = &pool[i];
    expected[list] += i;
  }
  walk<<<1, lists>>>(heads, sums);
  OK(hipDeviceSynchronize());
  for (int i = 0; i < lists; ++i) CHECK(sums[i] == expected[i]);
  for (int i = 0; i < nodes; ++i) CHECK(pool[i].value == i + 1);
  int total = 0;
  for (int i = 0; i < 63; ++i) {  // a heap-shaped tree of six levels
    for (int side = 0; side < 2; ++side)
      if (2 * i + 1 + side < 63) pool[i].child[side] = &pool[2 * i + 1 + side];
    int depth = 0;
    for (int at = i + 1; at > 0; at /= 2) ++depth;
    total += pool[i].value * depth;
  }
  climb<<<1, 1>>>(pool, &sums[lists]);
  OK(hipDeviceSynchronize());
  CHECK(sums[lists] == total);
  std::printf("linked list ok\n");
}
