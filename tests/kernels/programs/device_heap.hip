// Memory from device-side malloc and new: lists of small nodes, arrays of many pages, blocks that outlive their kernel.
#include "check.h"

struct Node {
  int value;
  Node* next;
};

__global__ void lists(int* sums) {
  Node* head = nullptr;
  for (int i = 0; i < 5; ++i) {
    Node* node = static_cast<Node*>(malloc(sizeof(Node)));
    node->value = i + (int)threadIdx.x;
    node->next = head;
    head = node;
  }
  int sum = 0;
  while (head != nullptr) {
    Node* next = head->next;
    sum += head->value;
    free(head);
    head = next;
  }
  int* array = new int[4096 + threadIdx.x];
  array[4095] = sum;
  sums[blockIdx.x * blockDim.x + threadIdx.x] = array[4095];
  delete[] array;
}

__global__ void keep(int** kept) {
  kept[threadIdx.x] = new int(7 * (int)threadIdx.x);
}

__global__ void take(int** kept, int* values) {
  values[threadIdx.x] = *kept[threadIdx.x];
  delete kept[threadIdx.x];
}

int main() {
  int *sums, **kept, host[256];
  OK(hipMalloc(&sums, sizeof host));
  OK(hipMalloc(&kept, 64 * sizeof(int*)));
  lists<<<4, 64>>>(sums);
  OK(hipMemcpy(host, sums, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < 256; ++i) CHECK(host[i] == 10 + 5 * (i % 64));
  keep<<<1, 64>>>(kept);
  take<<<1, 64>>>(kept, sums);
  OK(hipMemcpy(host, sums, 64 * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) CHECK(host[i] == 7 * i);
  std::printf("device heap ok\n");
  return 0;
}
