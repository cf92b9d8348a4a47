// Nothing of it is needed (see README.md).
#pragma once
