// SPDX-License-Identifier: MIT
// A user's program in C++11 that saves a parameter and loads it again.
#include <rapt/rapt.h>
#include <rapt/safetensors.h>

#include <cstdio>
#include <iostream>

int main() {
    float value = 0.5f, back = 0;
    const rapt_parameter saved = {"w", rapt_tensor_1d(RAPT_F32, &value, 1)};
    const rapt_parameter loaded = {"w", rapt_tensor_1d(RAPT_F32, &back, 1)};
    const char *path = "parameters_cpp.safetensors";
    char message[256] = "";
    rapt_safetensors *file = nullptr;
    rapt_status status = rapt_safetensors_save(path, &saved, 1, message);
    if (status == RAPT_OK) { status = rapt_safetensors_open(&file, path); }
    if (status == RAPT_OK) { status = rapt_safetensors_load(file, nullptr, &loaded, 1); }
    std::cout << "C++: " << rapt_status_name(status) << ' ' << message << ' ' << back << '\n';
    rapt_safetensors_close(file);
    std::remove(path);
    return status == RAPT_OK && back == value ? 0 : 1;
}
