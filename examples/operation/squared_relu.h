// Squared ReLU (So et al. 2021, "Primer"): max(x, 0)^2, element by element.
#ifndef EXAMPLES_OPERATION_SQUARED_RELU_H_
#define EXAMPLES_OPERATION_SQUARED_RELU_H_

#include "reprise/model.h"

reprise::Tensor SquaredRelu(reprise::Tensor x);  // any shape -> the same

#endif  // EXAMPLES_OPERATION_SQUARED_RELU_H_
